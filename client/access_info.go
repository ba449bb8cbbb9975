package client

import "time"

// UserInfo is one who may log in.
type UserInfo struct {
	Name string   `api:"name"`
	Tags []string `api:"tags"`
	// HashingAlgorithm of its password; empty: it cannot log in by password.
	HashingAlgorithm string      `api:"hashing_algorithm"`
	Limits           *UserLimits `api:"limits"`
}

// Limit is a limit with what is used of it, over all nodes that answer.
type Limit struct {
	Name string `api:"name"` // such as max-message-rate
	// Limit is nil if there is none.
	Limit *int64 `api:"limit"`
	// Used is how many there are; of a rate what was published in the last second. Of rates and of stored bytes it is
	// nil without a limit.
	Used *float64 `api:"used"`
}

// Identity tells who is logged in.
type Identity struct {
	// User: empty where nobody has to log in.
	User string   `api:"user"`
	Tags []string `api:"tags"`
	// Expires is when the login ends; zero: it does not.
	Expires time.Time `api:"expires_ms"`
}

// Token holds the token; it cannot be read again.
type Token struct {
	Token string `api:"token"`
	// ID is for RevokeToken.
	ID string `api:"id"`
	// Expires is when it ends.
	Expires time.Time `api:"expires_ms"`
}

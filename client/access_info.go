package client

import "time"

// UserInfo is a user that may log in.
type UserInfo struct {
	Name string   `api:"name"`
	Tags []string `api:"tags"`
	// HashingAlgorithm of its password; empty: it cannot log in by password.
	HashingAlgorithm string      `api:"hashing_algorithm"`
	Limits           *UserLimits `api:"limits"`
}

// Limit is a limit with its current use, over all nodes that answer.
type Limit struct {
	Name string `api:"name"` // such as max-message-rate
	// Limit is nil if there is no limit.
	Limit *int64 `api:"limit"`
	// Used is the current use; for a rate, what was published in the last second. For rates and stored
	// bytes it is nil if there is no limit.
	Used *float64 `api:"used"`
}

// Identity is the login of the client.
type Identity struct {
	// User is empty where logins are off.
	User string   `api:"user"`
	Tags []string `api:"tags"`
	// Expires is when the login expires; zero: never.
	Expires time.Time `api:"expires_ms"`
}

// Token holds the token; it cannot be read again.
type Token struct {
	Token string `api:"token"`
	// ID is for RevokeToken.
	ID string `api:"id"`
	// Expires is when the token expires.
	Expires time.Time `api:"expires_ms"`
}

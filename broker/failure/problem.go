package failure

// Problem is a mistake for which a protocol may have its own words. The Error's other fields name
// the object, the argument and its value. The zero value stands for all other mistakes.
type Problem uint8

// The problems.
const (
	// ProblemDefaultExchange: a request would change or bind the default exchange (EX-3).
	ProblemDefaultExchange Problem = iota + 1
	// ProblemReservedName: a request would create an object whose name begins with "amq." (EX-2).
	ProblemReservedName
	// ProblemSystemExchange: a request would delete an exchange with such a name.
	ProblemSystemExchange
	// ProblemInternalExchange: a client published to an internal exchange (EX-4).
	ProblemInternalExchange
	// ProblemExchangeType: there is no such exchange type; Value is the type, quoted.
	ProblemExchangeType
	// ProblemQueueType: quorum queues do not have this argument.
	ProblemQueueType
	// ProblemKeys: the header that Arg names does not hold routing keys; Received is its value
	// (MSG-8).
	ProblemKeys
	// ProblemUserID: user_id is not the name of User (MSG-3); Value is user_id, quoted.
	ProblemUserID
	// ProblemExpiration: the expiration cannot be parsed (MSG-4); Value is the expiration, quoted.
	ProblemExpiration
	// ProblemInUse and ProblemNotEmpty: the object was to be deleted only if it is unused or empty,
	// and it is not.
	ProblemInUse
	ProblemNotEmpty
	// ProblemExclusiveUse: there would be an exclusive consumer and another one (CO-2).
	ProblemExclusiveUse
	// ProblemSingleActive: a get from a queue with a single active consumer (DEL-5); Value is the
	// type of the queue.
	ProblemSingleActive
	// ProblemNoRight: User lacks Right for the object (VH-6). With Arg "routing_key", User lacks it
	// for the key Value, quoted (VH-8).
	ProblemNoRight
	// ProblemVHostMissing and ProblemVHostForbidden: the vhost does not exist; User may do nothing
	// in it.
	ProblemVHostMissing
	ProblemVHostForbidden
	// ProblemLimit: the user or vhost would exceed the limit Arg, which is Value (VH-4, VH-17).
	ProblemLimit
)

package failure

// Problem is a mistake that a protocol may have its own words for. The Error's other fields
// name the thing, the argument and its value; the zero value stands for all other mistakes.
type Problem uint8

// The problems.
const (
	// ProblemDefaultExchange: the default exchange was to be changed or bound (EX-3).
	ProblemDefaultExchange Problem = iota + 1
	// ProblemReservedName: a thing of a name that begins with "amq." was to be made (EX-2).
	ProblemReservedName
	// ProblemSystemExchange: an exchange of such a name was to be deleted.
	ProblemSystemExchange
	// ProblemInternalExchange: a client published to an internal exchange (EX-4).
	ProblemInternalExchange
	// ProblemExchangeType: there is no such type of exchanges; Value is the type, quoted.
	ProblemExchangeType
	// ProblemQueueType: the argument is not one of quorum queues.
	ProblemQueueType
	// ProblemKeys: the header that Arg names holds, by Received, no routing keys (MSG-8).
	ProblemKeys
	// ProblemUserID: user_id is another name than User's (MSG-3); Value is user_id, quoted.
	ProblemUserID
	// ProblemExpiration: the expiration cannot be read (MSG-4); Value is it, quoted.
	ProblemExpiration
	// ProblemInUse and ProblemNotEmpty: the thing was to be deleted only if it is neither.
	ProblemInUse
	ProblemNotEmpty
	// ProblemExclusiveUse: an exclusive consumer and another one (CO-2).
	ProblemExclusiveUse
	// ProblemSingleActive: a get of a queue with a single active consumer (DEL-5); Value is
	// the queue's type.
	ProblemSingleActive
	// ProblemNoRight: User lacks Right at the thing (VH-6); with Arg "routing_key", at the key
	// Value of it, quoted (VH-8).
	ProblemNoRight
	// ProblemVHostMissing and ProblemVHostForbidden: there is no such vhost; User may do nothing
	// in it.
	ProblemVHostMissing
	ProblemVHostForbidden
	// ProblemLimit: the user or vhost would have more than the limit Arg of Value (VH-4, VH-17).
	ProblemLimit
)

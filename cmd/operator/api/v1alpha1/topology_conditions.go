package v1alpha1

// Types of conditions of the objects that describe what is in a cluster, beside Ready.
const (
	// ConditionDrifted: the broker has something else than specified, which the operator does not change; the
	// message names each field, what was wanted and what was found.
	ConditionDrifted = "Drifted"
	// ConditionDeletionBlocked: the object is to be deleted, and what it stands for cannot be yet; the message
	// says why, and what to do.
	ConditionDeletionBlocked = "DeletionBlocked"
)

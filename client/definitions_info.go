package client

// ImportedObject is one object of the document.
type ImportedObject struct {
	// Kind of the object, such as "queue" or "topic permission".
	Kind  string `api:"kind"`
	VHost string `api:"vhost"`
	Name  string `api:"name"`
	// Path in the document, such as $.queues[3].
	Path    string        `api:"path"`
	Outcome ImportOutcome `api:"outcome"`
	// Reason why it was not created.
	Reason string `api:"reason"`
	// Warnings list what differs from the document because it has no counterpart.
	Warnings []string `api:"warnings"`
}

// ImportSummary counts objects by outcome.
type ImportSummary struct {
	Created   uint32 `api:"created"`
	Unchanged uint32 `api:"unchanged"`
	Different uint32 `api:"different"`
	Refused   uint32 `api:"refused"`
	Skipped   uint32 `api:"skipped"`
	Failed    uint32 `api:"failed"`
}

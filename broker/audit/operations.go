package audit

// Operation is the kind of change that a record is about (AU-1).
type Operation string

// The operations: first those that need a tag or change rights, then those of ordinary clients.
const (
	OpUserPut              Operation = "user.put"
	OpUserChange           Operation = "user.change"
	OpUserDelete           Operation = "user.delete"
	OpUserLimits           Operation = "user.limits"
	OpPermissionSet        Operation = "permission.set"
	OpPermissionClear      Operation = "permission.clear"
	OpTopicPermissionSet   Operation = "topic_permission.set"
	OpTopicPermissionClear Operation = "topic_permission.clear"
	OpVHostPut             Operation = "vhost.put"
	OpVHostDelete          Operation = "vhost.delete"
	OpVHostLimits          Operation = "vhost.limits"
	OpPolicyPut            Operation = "policy.put"
	OpPolicyDelete         Operation = "policy.delete"
	OpParameterPut         Operation = "parameter.put"
	OpParameterDelete      Operation = "parameter.delete"
	OpTokenMint            Operation = "token.mint"
	OpTokenRevoke          Operation = "token.revoke"
	OpDefinitionsImport    Operation = "definitions.import"
	OpQueueExport          Operation = "queue.export"
	OpQueueRestore         Operation = "queue.restore"
	OpConnectionClose      Operation = "connection.close"
	OpLogLevel             Operation = "log.level"
	OpVersionFinalise      Operation = "version.finalize"
	OpNodeJoin             Operation = "node.join"
	OpNodeDrain            Operation = "node.drain"
	OpNodeUndrain          Operation = "node.undrain"
	OpNodeForget           Operation = "node.forget"
	OpNodeReplace          Operation = "node.replace"
	OpNodeRemove           Operation = "node.remove"
	OpQueuesGrow           Operation = "queues.grow"
	OpQueuesShrink         Operation = "queues.shrink"
	OpQueuesRebalance      Operation = "queues.rebalance"
	OpMemberAdd            Operation = "member.add"
	OpMemberRemove         Operation = "member.remove"
	OpMemberReplace        Operation = "member.replace"
	OpLeaderTransfer       Operation = "leader.transfer"
	OpOperationCancel      Operation = "operation.cancel"
	OpLoginsReset          Operation = "logins.reset"

	OpLogin           Operation = "login"
	OpQueueDeclare    Operation = "queue.declare"
	OpQueueDelete     Operation = "queue.delete"
	OpQueuePurge      Operation = "queue.purge"
	OpQueueRetry      Operation = "queue.retry"
	OpExchangeDeclare Operation = "exchange.declare"
	OpExchangeDelete  Operation = "exchange.delete"
	OpBindingCreate   Operation = "binding.create"
	OpBindingDelete   Operation = "binding.delete"
	OpMessagesDelete  Operation = "messages.delete"
	OpMessagesMove    Operation = "messages.move"
	OpMessagesRedrive Operation = "messages.redrive"
)

// administration returns the operations that need a tag or change rights.
func administration() []Operation {
	return []Operation{
		OpUserPut, OpUserChange, OpUserDelete, OpUserLimits, OpPermissionSet, OpPermissionClear, OpTopicPermissionSet, OpTopicPermissionClear,
		OpVHostPut, OpVHostDelete, OpVHostLimits, OpPolicyPut, OpPolicyDelete, OpParameterPut, OpParameterDelete, OpTokenMint, OpTokenRevoke,
		OpDefinitionsImport,
		OpQueueExport, OpQueueRestore,
		OpConnectionClose, OpLogLevel, OpVersionFinalise, OpNodeJoin, OpNodeDrain, OpNodeUndrain, OpNodeForget, OpNodeReplace, OpNodeRemove, OpQueuesGrow, OpQueuesShrink,
		OpQueuesRebalance, OpMemberAdd, OpMemberRemove, OpMemberReplace, OpLeaderTransfer, OpOperationCancel, OpLoginsReset,
	}
}

// use returns the operations of ordinary clients.
func use() []Operation {
	return []Operation{
		OpLogin, OpQueueDeclare, OpQueueDelete, OpQueuePurge, OpQueueRetry, OpExchangeDeclare, OpExchangeDelete, OpBindingCreate, OpBindingDelete,
		OpMessagesDelete, OpMessagesMove, OpMessagesRedrive,
	}
}

// The ways to log in, as records name them.
const (
	MechanismPassword    = "password"
	MechanismToken       = "token"
	MechanismHost        = "administrator-token"
	MechanismCertificate = "certificate"
)

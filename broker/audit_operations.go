package broker

// AuditOperation is what a record of the audit is about (AU-1).
type AuditOperation string

// The operations: first what takes a tag, or says who may do what, then what clients do.
const (
	OpUserPut              AuditOperation = "user.put"
	OpUserChange           AuditOperation = "user.change"
	OpUserDelete           AuditOperation = "user.delete"
	OpUserLimits           AuditOperation = "user.limits"
	OpPermissionSet        AuditOperation = "permission.set"
	OpPermissionClear      AuditOperation = "permission.clear"
	OpTopicPermissionSet   AuditOperation = "topic_permission.set"
	OpTopicPermissionClear AuditOperation = "topic_permission.clear"
	OpVHostPut             AuditOperation = "vhost.put"
	OpVHostDelete          AuditOperation = "vhost.delete"
	OpVHostLimits          AuditOperation = "vhost.limits"
	OpPolicyPut            AuditOperation = "policy.put"
	OpPolicyDelete         AuditOperation = "policy.delete"
	OpParameterPut         AuditOperation = "parameter.put"
	OpTokenMint            AuditOperation = "token.mint"
	OpTokenRevoke          AuditOperation = "token.revoke"
	OpDefinitionsImport    AuditOperation = "definitions.import"
	OpConnectionClose      AuditOperation = "connection.close"
	OpVersionFinalise      AuditOperation = "version.finalize"
	OpNodeJoin             AuditOperation = "node.join"
	OpNodeDrain            AuditOperation = "node.drain"
	OpNodeForget           AuditOperation = "node.forget"
	OpNodeReplace          AuditOperation = "node.replace"
	OpNodeRemove           AuditOperation = "node.remove"
	OpQueuesGrow           AuditOperation = "queues.grow"
	OpQueuesShrink         AuditOperation = "queues.shrink"
	OpQueuesRebalance      AuditOperation = "queues.rebalance"
	OpMemberAdd            AuditOperation = "member.add"
	OpMemberRemove         AuditOperation = "member.remove"
	OpMemberReplace        AuditOperation = "member.replace"
	OpLeaderTransfer       AuditOperation = "leader.transfer"
	OpOperationCancel      AuditOperation = "operation.cancel"

	OpLogin           AuditOperation = "login"
	OpQueueDeclare    AuditOperation = "queue.declare"
	OpQueueDelete     AuditOperation = "queue.delete"
	OpQueuePurge      AuditOperation = "queue.purge"
	OpQueueRetry      AuditOperation = "queue.retry"
	OpExchangeDeclare AuditOperation = "exchange.declare"
	OpExchangeDelete  AuditOperation = "exchange.delete"
	OpBindingCreate   AuditOperation = "binding.create"
	OpBindingDelete   AuditOperation = "binding.delete"
	OpMessagesDelete  AuditOperation = "messages.delete"
	OpMessagesMove    AuditOperation = "messages.move"
	OpMessagesRedrive AuditOperation = "messages.redrive"
)

// administration are the operations that take a tag, or say who may do what.
func administration() []AuditOperation {
	return []AuditOperation{
		OpUserPut, OpUserChange, OpUserDelete, OpUserLimits, OpPermissionSet, OpPermissionClear, OpTopicPermissionSet, OpTopicPermissionClear,
		OpVHostPut, OpVHostDelete, OpVHostLimits, OpPolicyPut, OpPolicyDelete, OpParameterPut, OpTokenMint, OpTokenRevoke, OpDefinitionsImport,
		OpConnectionClose, OpVersionFinalise, OpNodeJoin, OpNodeDrain, OpNodeForget, OpNodeReplace, OpNodeRemove, OpQueuesGrow, OpQueuesShrink,
		OpQueuesRebalance, OpMemberAdd, OpMemberRemove, OpMemberReplace, OpLeaderTransfer, OpOperationCancel,
	}
}

// use are those of clients.
func use() []AuditOperation {
	return []AuditOperation{
		OpLogin, OpQueueDeclare, OpQueueDelete, OpQueuePurge, OpQueueRetry, OpExchangeDeclare, OpExchangeDelete, OpBindingCreate, OpBindingDelete,
		OpMessagesDelete, OpMessagesMove, OpMessagesRedrive,
	}
}

// The mechanisms of logging in, as the audit tells them.
const (
	mechanismPassword    = "password"
	mechanismToken       = "token"
	mechanismHost        = "administrator-token"
	mechanismCertificate = "certificate"
)

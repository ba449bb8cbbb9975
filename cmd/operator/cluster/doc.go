// Package cluster keeps clusters of Quorate as their QuorateCluster objects describe them.
//
// A reconcile pass gathers what there is (Seen), decides one next step (Plan) and carries it
// out. Nothing is remembered between two passes but what is on the cluster's objects: who is killed after any step, and starts
// again, goes on rightly from what the cluster itself shows.
package cluster

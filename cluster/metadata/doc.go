// Package metadata is the catalog on a node. Group is the node's member of the catalog group: it founds
// or joins the cluster (RE-9), has commands committed, keeps the group's members in step with the nodes (RE-6),
// finalises versions, and reports whether clients may be served from the view (EX-16). Its machine makes the Views; a
// change is over when the other nodes see it (EX-15). Judge reports which nodes are refused, and Admission whether
// this one is let in: the transport asks both.
package metadata

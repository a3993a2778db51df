// Package witness is both ends of the C2SP tlog-witness protocol: a witness
// that cosigns a log's checkpoints as long as each extends the one before it,
// the client that asks a witness, and the policy that says whose cosignatures
// a checkpoint needs before it counts (tlog-cosignature, tlog-policy).
//
// # What is on disk
//
//	key          note signing key (0600)
//	key.pub      vkey of the cosignatures, for policies
//	logs         the trusted log keys: one vkey a line, # starts a comment
//	state/       one file an origin: what was cosigned last
//	conflicts/   checkpoints that a trusted key signed and that do not extend
//	             what was cosigned, at most maxConflicts of a kind
//	lock         held by the running witness
//
// A state file is JSON:
//
//	{"v":1,"origin":"example.com/log","checkpoint":"…signed note…","sha256":"…"}
//
// The checkpoint is "" until the first cosignature; sha256 is over origin, a
// newline and the checkpoint. A log's state file is made when the log is added
// and never again: a witness whose state is gone or unreadable does not start,
// because one that began again at size 0 would cosign any rewritten log.
package witness

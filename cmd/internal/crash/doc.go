// Package crash tests the assay binary from outside, as separate processes:
// what an ack is worth when services are killed, whether each prediction still
// has its one resolution then, whether the broker fsyncs before it replies, what
// garbage does to memory, what a second or a killed service leaves to the next
// command, and what a cluster of three brokers makes of kills, pauses, full
// disks, cut networks and upgrades. It holds tests only.
//
// Environment variables make the tests longer:
//
//	ASSAY_CRASH_ROUNDS  rounds of kill -9; default 4, `task crash` runs 50
//	ASSAY_CRASH_SEED    seed of the kills and the load; default from the clock
//	ASSAY_RESOLVE_ROUNDS  rounds of kill -9 of the resolver and what it lives on; default 3, `task resolve` runs 30
//	ASSAY_CLUSTER_ROUNDS  rounds of faults on a cluster; two meet each once; default 2, `task cluster` runs 40
//	ASSAY_CLUSTER_PAUSE   seconds for which a logger is stopped; default 6, `task cluster` takes 30
//	ASSAY_GARBAGE_MB    garbage through emit, in MiB; default 64; 1024 takes two minutes
//	ASSAY_FLOOD_SECONDS how long one principal floods; default 1; `task flood` takes 20
//
// With -race the services are built with the race detector too.
package crash

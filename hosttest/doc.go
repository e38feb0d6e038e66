// Package hosttest holds the tests of clusters as they are run: real simnode processes, on loopback addresses of
// their own or on hosts of their own, which are killed, stopped, cut off, flooded and fed with garbage while they
// carry a job out. It promises nothing to other packages and holds no code that ships.
//
// What is tested is always the same: the job ends with the digest and the files of one undisturbed process, whatever
// nodes were lost on the way.
//
// Files: process_test.go starts and ends processes, cluster_test.go makes clusters of them and asks them,
// hosts_test.go makes hosts. The rest are tests: coordinators_test.go and lost_test.go of processes that stop,
// intruders_test.go of strangers, security_test.go of certificates, keys and tokens, models_test.go of the
// scenarios that ship, network_test.go of links that lose, delay and break.
//
// Hosts are network namespaces with addresses of their own on a bridge. They need Linux, root and ip (iproute2);
// some tests need nft, tc or ss too. Where something is missing the test says what it skips. What is made
// carries the prefix "simnode-t" and is removed at the end, and at the next start where a test was killed;
// processes end with the test that started them, however it ends.
//
// Tests that take long run only with SIMNODE_LONG_TESTS=1:
//
//	SIMNODE_LONG_TESTS=1 go test -v -timeout 20m ./hosttest/
//
// With GOFLAGS=-race the nodes too are built with the race detector.
package hosttest

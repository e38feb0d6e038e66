// Package hosttest holds the tests of a cluster on several hosts: network namespaces with addresses of their
// own on a bridge, a node process in each, and links between them that lose packets, are slow or are cut. It
// holds no code that ships.
//
// The tests need Linux, root and ip (iproute2), and nft (nftables) where packets are lost; where something
// is missing they say what they skip. Everything they make carries the prefix "simnode-t" and is removed at
// the end, and at the next start where a test was killed.
package hosttest

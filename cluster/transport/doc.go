// Package transport carries everything that nodes say to one another over one TCP port each: links with
// messages between nodes ([Mesh]), and plain streams for other packages ([Transport.Layer]).
//
// # What it promises
//
//   - With a TLS configuration every connection is TLS 1.3 with both sides verified, and a node is who it
//     says only if its certificate carries its name. Without one, anyone who can connect is trusted.
//   - A process of another cluster or protocol version, or one that takes this node for another, is
//     refused before it can send anything else, and both sides get an error that names both.
//   - Messages of a [Mesh] arrive once and in order however often connections break, as long as both
//     processes live (package link); when the other process was replaced, [MeshOptions.Replaced] says so.
//   - Connections that no longer carry, be it in one direction, are found and made again.
//   - Memory and connections are bounded: strangers get MaxPending connections, HandshakeTimeout and a few
//     bytes each; when there are too many the oldest gives way, so that a flood of them, or ones that
//     send slowly, do not keep nodes out. What is sent is bounded by the window of each link.
//
// # How links use connections
//
// Each node dials the others it has something to say to, and writes its frames on the connection it
// dialled; what comes back on it are signs of life and refusals only. So two nodes that talk have two
// connections, and nobody has to agree on who dials. A connection that breaks is dialled again, with a
// growing pause, and the link goes on from what was received.
package transport

// Package link carries messages between two processes over a channel that may lose, duplicate, reorder,
// delay or break.
//
// # What it promises
//
//   - A message given to [Session.Send] comes out of the other Session once, whole, and after those sent
//     before it, as long as both Sessions live.
//   - When one of them was replaced (its process restarted, or it was forgotten and made anew) the other
//     learns so before it gets anything from the new one: [Arrival.Replaced]. What had not been
//     acknowledged by the old one is dropped; nothing of the old one is delivered from then on.
//   - Memory is bounded: by [Config.Window] for what is to be sent, by [Config.MaxMessage] for what is being
//     put together, by [Config.Ahead] frames and the window for what came too early. No length on the wire is believed
//     before it was checked.
//   - A process of another cluster, name or protocol version is refused with an error that names both.
//   - Pure: no goroutine, clock, random number or socket. Equal calls give equal frames.
//
// # How it works
//
// A frame is protected by a checksum and says which process sent it to which one, as a hash of both
// identities. Data frames are numbered from 1 and acknowledged cumulatively, on data frames that go the
// other way or, after a while or enough bytes, alone. What is not acknowledged is sent again after
// [Session.Reconnected] or, if [Config.Resend] is set, after that time.
//
// Two Sessions get to know each other by hellos. Each carries a number that the other one must echo, so
// that a hello that was long on the way cannot bring a dead process back:
//
//	A: hello, number 7                     B does not know whether A lives still
//	B: hello, number 3, echo 7             A takes B: the echo shows that B lives now
//	A: hello, echo 3                       B takes A
//
// The same exchange follows each reconnection and tells both sides where to resume.
package link

package node

// FoldEvent is for the reference in the tests, which shares the digest and nothing else.
var FoldEvent = foldEvent

package scenario

// Nearest returns the candidate whose spelling is nearest to word, or "" if none is near enough to be
// what was meant. The first of equals wins.
func Nearest(word string, candidates []string) string { return nearest(word, candidates) }

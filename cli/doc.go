// Package cli is the command line of simnode as a package, so that a program with a model of one's own
// gets all of it:
//
//	func main() { cli.Main(mymodel.Model()) }
//
// What it promises:
//
//   - The commands, flags, exit codes and the keys of the JSON output stay as they are documented in
//     docs/command-line.md.
//   - Exit code 0: done. 1: the run failed. 2: bad usage or scenario, and nothing has run. 130:
//     interrupted, and what was recorded so far is complete on disk.
//   - Results go to standard output; progress and errors go to standard error. With -o json standard
//     output holds one JSON object and nothing else.
//   - Bad input never ends in a panic: errors say what is wrong, where, and what is allowed.
//   - A run touches only files of its own in the output folder: it replaces those of an earlier run
//     and leaves all others alone. Two runs in one folder at once are refused.
//   - A command that asks a cluster prints what the cluster said and nothing that acts on a terminal, writes
//     only plain names into the folder that it was given, and tells a cluster that is not there (exit code 3)
//     from one that refuses.
//   - An interrupt is answered at once: loading a scenario is given up, a run says that it stops.
//
// Files: cli.go is the root command and the exit codes; flags.go are values of flags; run.go is the
// one place where a run is wired up; lock.go keeps a folder to one run; package summary makes what
// is told about it, progress.go shows what is told on the way; client.go has what the commands that ask a
// cluster share; the other commands have a file each.
package cli

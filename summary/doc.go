// Package summary makes what is told about a run when it has ended: the summary, the model's results and
// pictures, and the page.
//
// What it promises:
//
//   - One document for every way to run: in one process, on several on one machine, in a cluster. Its
//     keys and their order do not change.
//   - The summary is written last: a folder that has one holds all the files that it names.
//   - A model whose results or pictures fail, by an error or a panic, gives an error that names it.
//   - No name of a file comes from a model unchecked.
package summary

// Package filelock marks files as being written, for other programs that ask. The marks keep nobody from reading or
// writing, and they are gone with the program that made them.
package filelock

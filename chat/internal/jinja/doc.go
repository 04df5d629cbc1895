// Package jinja is an interpreter for the part of the Jinja template language
// that chat templates use, with the settings that model hubs give it:
// trim_blocks, lstrip_blocks, loop controls, immutable values, and the
// functions raise_exception and strftime_now.
//
// # Origin
//
// Every byte of every string carries an [Origin]: the template, or one of the
// origins that the caller gave to its variables. Each operation hands the
// origins on: concatenation and slices, filters and methods, replace, split
// and join, changes of case, escapes in tojson and in the representation of
// lists. Comparisons, look-ups and lengths do not see them. The result of
// [Template.Render] therefore says of each byte who wrote it, whatever the
// template did to the text.
//
// # Bounds
//
// A template can reach nothing but its variables. Its work is bounded by [Limits]: steps, bytes made, depth of
// nesting, bytes of output; and it ends when the context does. Texts are made by builders alone, which count every
// byte before it is there. Every call of a filter, test or method counts the bytes of the texts that it is given; what
// goes through them character by character counts more. A template that is malformed or needs what the package does
// not have (inheritance, imports, unknown filters, tests and tags) is refused by [Parse] with its line.
package jinja

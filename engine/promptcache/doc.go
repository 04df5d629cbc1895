// Package promptcache keeps what models have computed for the beginnings of texts beyond a process: keys and values,
// states of recurrent layers, and what a draft head has of its target's states, as entries of a [Store].
//
//	folder, err := promptcache.NewFolder("cache", 10<<30)
//	saved, err := promptcache.Save(ctx, folder, lineage, session, promptcache.Unread{})
//	loaded, err := promptcache.Load(ctx, folder, lineage, m.NewSession, options, tokens, 1)
//
// An entry is found by a hash of all that decides about its bytes: the model's Identity, the session's options, the
// [Lineage], and the tokens up to its end. So nothing is ever out of date, and what another model or another salt has
// computed is not found. The bytes are the same on every machine and with every kernel set, as the logits are: what
// one processor has computed, another one goes on from. What is damaged counts as missing, and is computed again.
//
// A text is cut every [Step] tokens. Of each part there is an entry for each cache of the model; of the rest at a
// text's end too, and a bit in the marks of the part before says that it is there. Recurrent layers add their states
// after some lengths. A text can be restored to a length where everything that the next token looks at is in the
// store.
package promptcache

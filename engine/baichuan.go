package engine

// baichuan is Baichuan: Llama's block. The model of 32 blocks (7B) is rotated, that of 40 (13B) has ALiBi, and files do
// not say it. Baichuan 2, which files tell by its vocabulary alone, has an output matrix whose rows are normalized
// before they are used; files hold them as they were trained, and the reference engine does not normalize them.
func baichuan(l *loader, c *Config) family {
	f := family{
		norms: normParts{kind: rmsNorm{}},
		feed:  feedParts{gate: gated},
		ends:  endParts{output: outputRequired},
	}
	const baichuan2 = 125696 // tokens
	if c.Vocab == baichuan2 {
		l.failKey("general.architecture", ErrUnsupported, "Baichuan 2 (%d tokens), whose output matrix is to be normalized",
			c.Vocab)
	}
	switch c.Layers {
	case 32:
		f.rope.pairing = pairs
	case 40:
		f.rope.alibi = 8
		l.ignoreKeys("rope.")
	default:
		l.fail("block_count", ErrUnsupported, "%d: Baichuan's positions are known of models of 32 and of 40 blocks",
			c.Layers)
	}
	return f
}

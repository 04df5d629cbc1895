package convert

// qwen3VL converts the part of Qwen 3 VL that reads and writes texts.
func qwen3VL(b *builder) {
	b.config.saysTheta()
	sections := b.takeSections([]float32{24, 20, 20})
	b.llamaLike(options{headNorms: true})
	b.set("rope.dimension_sections", sections)
	b.pictures()
}

// qwen3VLMoE converts that part of the models with experts.
func qwen3VLMoE(b *builder) {
	b.config.saysTheta()
	sections := b.takeSections([]float32{24, 20, 20})
	o := options{headNorms: true, experts: b.qwenExperts(true, false)}
	o.experts.flipped = true
	b.llamaLike(o)
	b.set("rope.dimension_sections", sections)
	b.pictures()
}

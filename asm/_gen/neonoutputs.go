package main

var outputsARM64 = []output{
	{"matmul_neon_arm64.s", neonMatMul(baseline)},
	{"matmul_dotprod_arm64.s", neonMatMul(dotprod)},
	{"matmul_i8mm_arm64.s", neon(neonI8MM)},
	{"matmulfloat_neon_arm64.s", neon(neonMatMulFloat)},
	{"exp_neon_arm64.s", neon(neonExponentials)},
	{"norm_neon_arm64.s", neon(neonNorms)},
	{"inflate_neon_arm64.s", neon(neonInflate)},
	{"quantize_neon_arm64.s", neon(neonQuantize)},
	{"gumbel_neon_arm64.s", neon(neonGumbel)},
	{"scores_neon_arm64.s", neon(neonScores)},
	{"values_neon_arm64.s", neon(neonValues)},
	{"transpose_neon_arm64.s", neon(neonTurns)},
	{"scan_neon_arm64.s", neon(neonScans)},
	{"stream_neon_arm64.s", neon(neonStream)},
	{"rates_neon_arm64.s", neon(neonRates)},
	{"rates_dotprod_arm64.s", neon(neonRatesDotprod)},
	{"rates_i8mm_arm64.s", neon(neonRatesI8MM)},
}

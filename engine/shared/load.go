package shared

// Load is how busy a Scheduler is.
type Load struct {
	Sessions int // that generate at present
	Open     int // sessions that are not closed
	// seconds that each of them is charged, by the measure of its sessions, for a pass with one token of each; 0: they are
	// not known
	Token    float64
	Measured bool    // Token was measured lately, and not only computed from passes of many more tokens, or fewer
	Prompt   float64 // seconds of a token of a prompt; 0: not known
	Rows     int     // of the session's last pass, without those of prompts
	Among    int     // sessions that shared it
	Pass     int64   // number of the session's last pass; 0: it has had none
}

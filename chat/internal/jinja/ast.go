package jinja

// expr is an expression. eval never returns nil.
type expr interface {
	eval(m *machine, sc *scope) Value
}

// stmt is a statement; what it prints goes to out.
type stmt interface {
	exec(m *machine, sc *scope, out *builder) flow
}

// flow says how a statement ended.
type flow uint8

const (
	next flow = iota
	breakLoop
	continueLoop
)

type (
	constant struct{ v Value }
	nameExpr struct {
		line int
		name string
	}
	listExpr struct {
		items []expr
		kind  listKind
	}
	dictExpr struct{ keys, values []expr }
	attrExpr struct {
		line int
		of   expr
		name string
	}
	itemExpr struct {
		line int
		of   expr
		item expr
	}
	sliceExpr struct {
		line              int
		of                expr
		start, stop, step expr // nil where left out
	}
	callExpr struct {
		line int
		f    expr
		args argExprs
	}
	filterExpr struct {
		line int
		name string
		of   expr
		args argExprs
	}
	testExpr struct {
		line int
		name string
		not  bool
		of   expr
		args argExprs
	}
	unaryExpr struct {
		line int
		op   string // "-", "+", "not"
		x    expr
	}
	binaryExpr struct {
		line int
		op   string
		x, y expr
	}
	// chainExpr joins many terms by ~, and, or: nested pairs would nest deeply.
	chainExpr struct {
		op    string
		terms []expr
	}
	compareExpr struct {
		line int
		x    expr
		ops  []string
		ys   []expr
	}
	condExpr struct{ cond, yes, no expr } // no may be nil
)

type argExprs struct {
	pos      []expr
	names    []string // of the values
	values   []expr
	star     expr // *args, nil if none
	starstar expr // **kwargs
}

type (
	dataStmt  struct{ text Text }
	printStmt struct {
		line int
		x    expr
	}
	ifStmt struct {
		conds  []expr
		bodies [][]stmt // one more than conds if there is an else
	}
	forStmt struct {
		line      int
		target    target
		iter      expr
		cond      expr // nil if none
		recursive bool
		body      []stmt
		otherwise []stmt
		unset     []string // at the beginning of body, see unset.go; likewise below
		unsetElse []string
	}
	setStmt struct {
		line   int
		target target
		value  expr
	}
	setBlockStmt struct {
		line    int
		target  target
		filters []filterExpr // of is nil
		body    []stmt
		unset   []string
	}
	macroStmt struct {
		name  string
		macro macroDef
	}
	callStmt struct {
		line  int
		call  *callExpr
		macro macroDef
	}
	withStmt struct {
		line    int
		targets []target
		values  []expr
		body    []stmt
		unset   []string
	}
	filterStmt struct {
		line    int
		filters []filterExpr
		body    []stmt
		unset   []string
	}
	scopeStmt struct { // {% generation %}, {% block %}
		global bool // the body sees only the template's own variables
		body   []stmt
		unset  []string
	}
	flowStmt struct{ how flow }
)

type macroDef struct {
	line     int
	name     string
	params   []string
	defaults []expr // of the last params
	body     []stmt
	unset    []string
	asked    surplus
	block    bool // of {% call %}: it has no name
}

// surplus says which of these names a macro's body mentions: what stands for them is collected only then.
type surplus struct{ varargs, kwargs, caller bool }

// target is what an assignment assigns to: one name, one attribute of a
// namespace, or several targets that share a sequence.
type target struct {
	name, attr string
	parts      []target
}

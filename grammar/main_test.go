package grammar

import (
	"testing"

	"github.com/specgo/spec/internal/testkit"
)

func TestMain(m *testing.M) { testkit.Main(m) }

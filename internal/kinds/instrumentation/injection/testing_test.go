package injection_test

import (
	"strings"
	"testing"
	"time"

	"github.com/mainstay-platform/mainstay/internal/kinds/instrumentation/injection"
	"github.com/mainstay-platform/mainstay/internal/kinds/instrumentation/instrumentationtest"
)

// now is long after Began.
var now = instrumentationtest.Began.Add(24 * time.Hour)

// Short names of what tests share.
var (
	namespaced, cluster, settingOf = instrumentationtest.Namespaced, instrumentationtest.Cluster, instrumentationtest.SettingOf
	first, withFailure             = instrumentationtest.FirstOne, instrumentationtest.WithFailure
	template, container            = instrumentationtest.Template, instrumentationtest.Container
	compose, injectedInto          = instrumentationtest.Compose, instrumentationtest.InjectedInto
	expectStates, expectSame       = instrumentationtest.ExpectStates, instrumentationtest.ExpectSame
)

func expectRefusal(t *testing.T, got injection.AgentStatus, reason, message string) {
	t.Helper()
	if got.Refusal == nil || got.Refusal.Reason != reason || !strings.Contains(got.Refusal.Message, message) {
		t.Errorf("the refusal is %v: wanted %s: %s", got.Refusal, reason, message)
	}
}

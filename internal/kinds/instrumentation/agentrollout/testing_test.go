package agentrollout_test

import (
	"time"

	"github.com/mainstay-platform/mainstay/internal/kinds/instrumentation/instrumentationtest"
)

// now is when decisions are made: a Saturday, long after Began.
var now = instrumentationtest.Began.Add(24 * time.Hour)

// Short names of what tests share.
var (
	namespaced, cluster, settingOf = instrumentationtest.Namespaced, instrumentationtest.Cluster, instrumentationtest.SettingOf
	first, withFailure             = instrumentationtest.FirstOne, instrumentationtest.WithFailure
	template, container            = instrumentationtest.Template, instrumentationtest.Container
	compose, injectedInto          = instrumentationtest.Compose, instrumentationtest.InjectedInto
	expectStates, expectSame       = instrumentationtest.ExpectStates, instrumentationtest.ExpectSame
)

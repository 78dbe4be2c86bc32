package postgresql

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	databasev1 "github.com/mainstay-platform/mainstay/api/database/v1"
	"github.com/mainstay-platform/mainstay/internal/kit/plan"
)

// backup returns a change of spec.backup.
func backup(schedule, retention string) func(*databasev1.PostgreSQLSpec) {
	return func(s *databasev1.PostgreSQLSpec) {
		s.Backup = databasev1.Backup{Enabled: true, Schedule: schedule, Retention: retention}
	}
}

// TestBackupInput: a schedule and a retention are accepted, or refused with what is.
func TestBackupInput(t *testing.T) {
	for _, good := range []struct{ schedule, retention string }{
		{"", ""}, {"0 2 * * *", "1d"}, {"*/5 1-3 1,15 jan-mar mon", "3650d"}, {"@daily", "521w"}, {"@midnight", "9w"}, {"0 0 29 2 *", "1000d"},
	} {
		if problems := Validate(newDatabase(backup(good.schedule, good.retention))); len(problems) > 0 {
			t.Errorf("%+v: %v", good, problems)
		}
	}
	for schedule, want := range map[string]string{
		"* * * *": "expected exactly 5 fields", "60 * * * *": "above maximum", "@every 1h": "is unknown", "@reboot": "is unknown",
		"TZ=": "names a time zone", "CRON_TZ=UTC 0 2 * * *": "names a time zone", "0 0 30 2 *": "never occurs", "*/0 * * * *": "step of range",
		"0 2 * * daily": "failed to parse", strings.Repeat("1,", 1<<17): "has more than 100 characters",
	} {
		checkBackupProblem(t, newDatabase(backup(schedule, "")), "spec.backup.schedule: Invalid value: ", want)
	}
	for _, retention := range []string{"30", "d", "0d", "-1d", "+1d", "3651d", "522w", "30m", "1.5d", "010d", "10 d", strings.Repeat("9", 1<<18) + "d"} {
		checkBackupProblem(t, newDatabase(backup("", retention)), "spec.backup.retention: Invalid value: ", "must be from 1d to 3650d")
	}
}

func checkBackupProblem(t *testing.T, db *databasev1.PostgreSQL, prefix, want string) {
	t.Helper()
	problems := Validate(db)
	if len(problems) != 1 {
		t.Errorf("%.50v: got %v", db.Spec.Backup, problems)
		return
	}
	if got := problems[0].Error(); !strings.HasPrefix(got, prefix) || !strings.Contains(got, want) || len(got) > 500 {
		t.Errorf("%.50v: got %.600s", db.Spec.Backup, got)
	}
}

// TestBackupUnavailable: that nothing is backed up is said, and Ready does not wait for it; while
// no backups are wanted, there is nothing to say.
func TestBackupUnavailable(t *testing.T) {
	wanted, unwanted := newDatabase(backup("", "")), newDatabase()
	wanted.Status.FirstReadyTime = new(metav1.NewTime(noon))
	status, _ := Status(wanted, aged(running(wanted, 1)), Decision{Replicas: 1}, plan.Result{})
	if got := condition(status, "BackupHealthy"); got.Status != "False" || got.Reason != "BackupUnavailable" {
		t.Errorf("got %+v", got)
	}
	if ready := condition(status, "Ready"); ready.Status != "True" || status.Phase != databasev1.PhaseRunning {
		t.Errorf("got %s, %+v", status.Phase, ready)
	}
	if got := Warn(wanted, nil); len(got) != 1 || !strings.Contains(got[0], "nothing is backed up") {
		t.Errorf("got %q", got)
	}
	status, _ = Status(unwanted, aged(running(unwanted, 1)), Decision{Replicas: 1}, plan.Result{})
	if got := condition(status, "BackupHealthy"); got.Type != "" {
		t.Errorf("got %+v", got)
	}
}

package postgresql

import (
	"cmp"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/robfig/cron/v3"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	databasev1 "github.com/mainstay-platform/mainstay/api/database/v1"
	"github.com/mainstay-platform/mainstay/internal/database"
	"github.com/mainstay-platform/mainstay/internal/kit/conditions"
)

// What counts where spec.backup leaves it out.
const (
	defaultSchedule  = "0 2 * * *"
	defaultRetention = "30d"
)

// Limits of spec.backup. The lengths are those of the schema, in bytes.
const (
	maxSchedule      = 100
	maxRetention     = 5
	longestRetention = 3650 // days
	daysOfWeek       = 7
)

func defaultBackup(backup *databasev1.Backup) {
	if backup.Enabled {
		backup.Schedule = cmp.Or(backup.Schedule, defaultSchedule)
		backup.Retention = cmp.Or(backup.Retention, defaultRetention)
	}
}

// checkBackup returns what is wrong with spec.backup, whether or not backups are wanted.
func checkBackup(backup databasev1.Backup, at *field.Path) field.ErrorList {
	var problems field.ErrorList
	if schedule := backup.Schedule; schedule != "" {
		if err := checkSchedule(schedule); err != nil {
			problems = append(problems, field.Invalid(at.Child("schedule"), database.Shown(schedule),
				fmt.Sprintf("%v: must be a schedule as in a CronJob, such as %q, or @daily", err, defaultSchedule)))
		}
	}
	if retention := backup.Retention; retention != "" && !isRetention(retention) {
		problems = append(problems, field.Invalid(at.Child("retention"), database.Shown(retention), "must be from 1d to 3650d, or from 1w to 521w, for example 30d"))
	}
	return problems
}

// every has the times that a schedule may name beside its five fields. The library takes @every
// too, whose times depend on when a program was started.
var every = regexp.MustCompile(`^@(hourly|daily|midnight|weekly|monthly|yearly|annually)$`)

// checkSchedule returns an error for what is no schedule, or one that never occurs.
func checkSchedule(text string) error {
	switch {
	case len(text) > maxSchedule:
		return fmt.Errorf("has more than %d characters", maxSchedule)
	case strings.Contains(text, "="):
		// The library panics on some of these.
		return errors.New("names a time zone: times are UTC")
	case strings.HasPrefix(text, "@") && !every.MatchString(text):
		return errors.New("is unknown")
	}
	schedule, err := cron.ParseStandard(text)
	if err != nil {
		return err //nolint:wrapcheck // the caller says what was wanted
	}
	if schedule.Next(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)).IsZero() {
		return errors.New("never occurs")
	}
	return nil
}

func isRetention(text string) bool {
	if len(text) < 2 || len(text) > maxRetention || text[0] < '1' || text[0] > '9' {
		return false
	}
	number, err := strconv.Atoi(text[:len(text)-1])
	switch text[len(text)-1] {
	case 'd':
	case 'w':
		number *= daysOfWeek
	default:
		return false
	}
	return err == nil && number <= longestRetention
}

// backup says whether the database is backed up: not by this Mainstay. There is nothing to say
// while no backups are wanted.
func (s *subject) backup() []metav1.Condition {
	if !s.db.Spec.Backup.Enabled {
		return nil
	}
	return []metav1.Condition{conditions.False(databasev1.ConditionBackupHealthy, databasev1.ReasonBackupUnavailable, noBackups)}
}

const noBackups = "spec.backup.enabled is true, but this version of Mainstay makes no backups yet: nothing is backed up. " +
	"Until then, make backups by other means, such as pg_dump"

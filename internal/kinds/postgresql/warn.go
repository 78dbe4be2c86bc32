package postgresql

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"time"

	appsv1 "k8s.io/api/apps/v1"

	databasev1 "github.com/mainstay-platform/mainstay/api/database/v1"
	"github.com/mainstay-platform/mainstay/internal/database"
	"github.com/mainstay-platform/mainstay/internal/kit/conditions"
	imageref "github.com/mainstay-platform/mainstay/internal/kit/image"
)

// pastEnd are the versions that the PostgreSQL project no longer mends, and since when
// (https://www.postgresql.org/support/versioning/).
var pastEnd = map[string]string{"12": "2024-11-21", "13": "2025-11-13", "14": "2026-11-12"}

// waitsFrom is the first minor version of each major version whose commits wait from the first
// moment of a start on. Before, backends did not know of synchronous_standby_names until the
// checkpointer had published it
// (https://git.postgresql.org/gitweb/?p=postgresql.git;a=commit;h=2e57790836, of 2025-04-11, in the
// releases of 2025-05-08). 12 never got that; 18 has always had it.
var waitsFrom = map[string]int{"13": 21, "14": 18, "15": 13, "16": 9, "17": 5}

// minorVersion finds the versions that a tag begins with: 17.11, 17.11-bookworm.
var minorVersion = regexp.MustCompile(`^v?([0-9]{1,3})\.([0-9]{1,4})([^0-9.].*)?$`)

// racing returns the server's version if it is known that a commit may not wait right after a
// start; "" if not. Only the tag of the image says the minor version.
func racing(version, image string) string {
	if version == "12" {
		return version
	}
	from, known := waitsFrom[version]
	reference, err := imageref.Parse(image)
	if !known || err != nil {
		return ""
	}
	found := minorVersion.FindStringSubmatch(reference.Tag)
	if found == nil || found[1] != version {
		return ""
	}
	if minor, err := strconv.Atoi(found[2]); err != nil || minor >= from {
		return ""
	}
	return version + "." + found[2]
}

// startRace says that the server may not wait right after a start, and which release does; "" if it
// waits, that is not known, or nobody relies on it. No client is let in before the instance has
// seen that commits wait, so nothing is lost as long as that works: the message says what it rests
// on.
func startRace(db *databasev1.PostgreSQL, image string) string {
	version := racing(db.Spec.Version, image)
	if version == "" || db.Spec.Replicas < 2 || db.Spec.Durability == databasev1.DurabilityAsynchronous {
		return ""
	}
	fixed := "no release fixes"
	if from, exists := waitsFrom[db.Spec.Version]; exists {
		fixed = fmt.Sprintf("%s.%d fixes", db.Spec.Version, from)
	}
	return fmt.Sprintf("right after a start, PostgreSQL %s may acknowledge a commit without waiting for a replica, which %s. Mainstay lets no "+
		"client connect before it has seen that commits wait", version, fixed)
}

// WarnOfPooler warns that applications leave a pooler that a change takes out of the spec. before
// is the PostgreSQL of before, and all are the Deployments of the namespace.
func WarnOfPooler(db, before *databasev1.PostgreSQL, all []appsv1.Deployment) []string {
	pooler := before.Status.Pooler
	if db.Spec.Pooler != nil || before.Spec.Pooler == nil || pooler == nil || pooler.SecretName == "" {
		return nil
	}
	var bound []string
	for _, one := range BoundTo(db, all, time.Time{}) {
		bound = append(bound, one.name)
	}
	if len(bound) == 0 {
		return nil
	}
	slices.Sort(bound)
	bound = slices.Compact(bound)
	return []string{fmt.Sprintf("spec.pooler: the pods of the WebApps that are bound to this PostgreSQL (%s) are replaced, and then connect to the server itself. "+
		"The pooler is deleted after %d minutes, or later, when all have done that", conditions.FirstFew(bound, ", "),
		int(poolerLeaves.Minutes()))}
}

// Warn returns what is legal but unwise about a defaulted PostgreSQL. catalogue has the image of
// each major version.
func Warn(db *databasev1.PostgreSQL, catalogue map[string]string) []string {
	var warnings []string
	if since, ended := pastEnd[db.Spec.Version]; ended {
		warnings = append(warnings, fmt.Sprintf("spec.version: PostgreSQL %s has had no fixes since %s: use a later one, such as %q",
			db.Spec.Version, since, Versions[slices.Index(Versions, "17")]))
	}
	if db.Spec.Replicas == 2 && db.Spec.Durability == databasev1.DurabilityRequired {
		warnings = append(warnings, "spec.durability: with Required and 2 instances, no write is acknowledged while one of them is away: "+
			"use Preferred, or 3 instances")
	}
	if db.Spec.Replicas == 1 && db.Spec.SwitchoverAt != nil {
		warnings = append(warnings, "spec.switchoverAt: there is only one instance, so there is none to hand over to")
	}
	if db.Spec.Replicas > 1 && db.Spec.Durability == databasev1.DurabilityAsynchronous {
		warnings = append(warnings, "spec.durability: with Asynchronous, a failover loses the writes that no replica has received yet, "+
			"although they were acknowledged to clients")
	}
	if race := startRace(db, image(db, Observed{State: database.State{Catalogue: catalogue}})); race != "" {
		warnings = append(warnings, "spec.durability: "+race)
	}
	if db.Spec.Backup.Enabled {
		warnings = append(warnings, "spec.backup: "+noBackups)
	}
	return warnings
}

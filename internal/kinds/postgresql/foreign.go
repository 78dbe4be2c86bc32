package postgresql

import (
	"fmt"
	"slices"

	databasev1 "github.com/mainstay-platform/mainstay/api/database/v1"
	"github.com/mainstay-platform/mainstay/internal/database"
	"github.com/mainstay-platform/mainstay/internal/kit/conditions"
)

// foreignData says which volumes have data that are not the database's, while there is no primary.
func foreignData(s *subject) string {
	said := s.foreignVolumes()
	switch {
	case s.Primary != nil:
		return ""
	case said == "":
		return s.severalSystems()
	}
	said += ": nothing there was changed: restore the volumes that belong here, or create a PostgreSQL that fits them, or one of another name"
	if s.db.Spec.DeletionPolicy == databasev1.DeletionDelete {
		said += "; before this one is deleted, set spec.deletionPolicy to Retain, or its volumes are deleted with it"
	}
	return said
}

// foreignReplica says the same while another instance takes writes, from which one can be cloned.
func foreignReplica(s *subject) string {
	said := s.foreignVolumes()
	if said == "" || s.Primary == nil {
		return ""
	}
	return said + ": nothing there was changed: restore the volume that belongs here, or delete its claim and its pod, and it is cloned " +
		"from " + s.Primary.Pod.Name
}

// foreignVolumes says which volumes have data that are not the database's: of another major
// version, or of another database system. Their instances touch nothing.
func (s *subject) foreignVolumes() string {
	var said []string
	for _, instance := range s.Instances {
		if instance.Report.Foreign != "" {
			said = append(said, fmt.Sprintf("the volume %s %s", database.VolumeName(s.db.Name, instance.Ordinal), instance.Report.Foreign))
		}
	}
	return conditions.First(database.MaxReplicas, said, "; ")
}

// severalSystems says of which database systems the volumes are, if there are several and nothing
// says which one counts: then no instance leads. Of a database that has had a primary, that is not
// said: its Lease may only be missing, and the manager makes an empty one anew.
func (s *subject) severalSystems() string {
	if record, known := s.Observed.Record(s.Database); known && record.System != "" || s.Primary != nil || s.hasLed() {
		return ""
	}
	var said, systems []string
	ordinals := map[string][]int{}
	for _, instance := range s.Instances {
		system := instance.Report.System
		if system == "" {
			continue
		}
		if ordinals[system] == nil {
			systems = append(systems, system)
		}
		ordinals[system] = append(ordinals[system], instance.Ordinal)
		said = append(said, fmt.Sprintf("%s of the system %.40s", database.VolumeName(s.db.Name, instance.Ordinal), system))
	}
	if len(systems) < 2 { //nolint:mnd // two differ
		return ""
	}
	text := "the volumes have data of several database systems, and all must belong to one: " +
		conditions.First(database.MaxReplicas, said, ", ") + ": nothing there was changed: "
	if s.db.Spec.DeletionPolicy == databasev1.DeletionDelete {
		return text + "set spec.deletionPolicy to Retain first, or all volumes are deleted with the PostgreSQL; then this message says what to do next"
	}
	text += "delete the PostgreSQL and the claims that don't belong to the database to keep, and create it again with as many instances as " +
		"claims are left. The claims must be numbered from 0 on, because an instance without data keeps the others from electing a primary"
	for _, system := range systems {
		if moves := renumbered(s.db, ordinals[system]); moves != "" {
			text += fmt.Sprintf("; to keep %.40s, first %s", system, moves)
		}
	}
	return text
}

// hasLed reports whether an instance has ever led: then only one system can be the database's.
func (s *subject) hasLed() bool { return s.db.Status.Term > 0 || s.WasReady() }

// renumbered says under which claims the volumes of these instances have to be for their ordinals
// to be those from 0 on; "" if they are. A PostgreSQL makes as many pods as its highest claim says,
// and a pod without data among them keeps the others from electing a primary.
func renumbered(db *databasev1.PostgreSQL, ordinals []int) string {
	var moves []string
	free := 0
	for _, ordinal := range ordinals {
		if ordinal < len(ordinals) {
			continue
		}
		for slices.Contains(ordinals, free) {
			free++
		}
		for _, volume := range volumesOf(db) {
			moves = append(moves, fmt.Sprintf("that of %s to a new claim %s", volume.Claim(db.Name, ordinal), volume.Claim(db.Name, free)))
		}
		free++
	}
	if len(moves) == 0 {
		return ""
	}
	return "retain its PersistentVolumes and bind " + conditions.FirstFew(moves, ", ")
}

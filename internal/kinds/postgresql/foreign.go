package postgresql

import (
	"fmt"

	"github.com/mainstay-platform/mainstay/internal/kit/conditions"
)

// foreignData says which volumes have data that are not the database's, while there is no primary.
func foreignData(s *subject) string {
	said := s.foreignVolumes()
	switch {
	case s.primary != nil:
		return ""
	case said == "":
		return s.severalSystems()
	}
	return said + ": nothing there was changed: restore the volumes that belong here, or create a PostgreSQL that fits them, or one of " +
		"another name"
}

// foreignReplica says the same while another instance takes writes, from which one can be cloned.
func foreignReplica(s *subject) string {
	said := s.foreignVolumes()
	if said == "" || s.primary == nil {
		return ""
	}
	return said + ": nothing there was changed: restore the volume that belongs here, or delete its claim and its pod, and it is cloned " +
		"from " + s.primary.Pod.Name
}

// foreignVolumes says which volumes have data that are not the database's: of another major
// version, or of another database system. Their instances touch nothing.
func (s *subject) foreignVolumes() string {
	var said []string
	for _, instance := range s.instances {
		if instance.Report.Foreign != "" {
			said = append(said, fmt.Sprintf("the volume %s %s", VolumeName(s.db.Name, instance.Ordinal), instance.Report.Foreign))
		}
	}
	return conditions.First(MaxReplicas, said, "; ")
}

// severalSystems says of which database systems the volumes are, if there are several and no record
// says which one counts: then no instance leads.
func (s *subject) severalSystems() string {
	if record, known := s.observed.record(s.db); known && record.System != "" || s.primary != nil {
		return ""
	}
	var said []string
	systems := map[string]bool{}
	for _, instance := range s.instances {
		if system := instance.Report.System; system != "" {
			systems[system] = true
			said = append(said, fmt.Sprintf("%s of the system %.40s", VolumeName(s.db.Name, instance.Ordinal), system))
		}
	}
	if len(systems) < 2 { //nolint:mnd // two differ
		return ""
	}
	return "the volumes have the data of several databases, and all have to be of one: " + conditions.First(MaxReplicas, said, ", ") +
		": nothing there was changed: delete the PostgreSQL and the claims that do not belong to it, and create it again with as many " +
		"instances as claims are left"
}

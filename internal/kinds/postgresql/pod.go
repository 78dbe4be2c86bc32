package postgresql

import (
	corev1 "k8s.io/api/core/v1"

	databasev1 "github.com/mainstay-platform/mainstay/api/database/v1"
	"github.com/mainstay-platform/mainstay/internal/database"
)

// Volumes of a pod that only a PostgreSQL has, and where they are.
const (
	walVolume, walPath       = "wal", "/var/lib/mainstay-wal"
	sharedVolume, sharedPath = "shared-memory", "/dev/shm"
)

// podTemplate returns the pods' template.
func podTemplate(db *databasev1.PostgreSQL, observed Observed) corev1.PodTemplateSpec {
	d := Common(db, observed)
	volumes := append([]corev1.Volume{database.EmptyDir(sharedVolume, corev1.StorageMediumMemory)},
		d.SecretVolumes(corev1.BasicAuthUsernameKey, corev1.BasicAuthPasswordKey, "dbname")...)
	return d.InstanceTemplate(observed.State, server(db, d), volumes, restartingParameters(db))
}

// server is the container with our program as its first process, and the server below it.
func server(db *databasev1.PostgreSQL, d *database.Database) corev1.Container {
	mounts := append(database.Mounts(), corev1.VolumeMount{Name: sharedVolume, MountPath: sharedPath})
	if db.Spec.WALStorage != nil {
		mounts = append(mounts, corev1.VolumeMount{Name: walVolume, MountPath: walPath})
	}
	return corev1.Container{
		Name: ContainerName, Image: d.Image, Command: []string{database.Program}, Args: arguments(db, d),
		// For psql in the container: it finds the socket and the superuser.
		Env: append(database.PodVariables(), corev1.EnvVar{Name: "PGHOST", Value: database.RunPath},
			corev1.EnvVar{Name: "PGUSER", Value: "postgres"}),
		Ports:           d.ContainerPorts("postgresql"),
		Resources:       db.Spec.Resources,
		LivenessProbe:   database.LivenessProbe(),
		ReadinessProbe:  database.ReadinessProbe(),
		VolumeMounts:    mounts,
		SecurityContext: database.ContainerSecurity(),
	}
}

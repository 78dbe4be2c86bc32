package postgresql

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/mainstay-platform/mainstay/api"
	databasev1 "github.com/mainstay-platform/mainstay/api/database/v1"
	"github.com/mainstay-platform/mainstay/internal/database"
)

// Volumes of a pod that only a PostgreSQL has, and where they are.
const (
	walVolume, walPath       = "wal", "/var/lib/mainstay-wal"
	sharedVolume, sharedPath = "shared-memory", "/dev/shm"
)

// podTemplate returns the pods' template. Every byte of it matters: a change replaces all pods.
func podTemplate(db *databasev1.PostgreSQL, observed Observed) corev1.PodTemplateSpec {
	spec, d := &db.Spec, Common(db, observed)
	grace := int64(database.GracePeriodSeconds)
	volumes := append(database.ScratchVolumes(), database.EmptyDir(sharedVolume, corev1.StorageMediumMemory))
	volumes = append(volumes, d.SecretVolumes(corev1.BasicAuthUsernameKey, corev1.BasicAuthPasswordKey, "dbname")...)
	return corev1.PodTemplateSpec{
		ObjectMeta: podMeta(db, d),
		Spec: corev1.PodSpec{
			InitContainers:                []corev1.Container{database.Installer(observed.State)},
			Containers:                    []corev1.Container{server(db, d)},
			Volumes:                       volumes,
			ServiceAccountName:            database.AccountName(db.Name),
			ImagePullSecrets:              spec.ImagePullSecrets,
			SecurityContext:               database.PodSecurity(spec.RunAsUser),
			TerminationGracePeriodSeconds: &grace,
			EnableServiceLinks:            new(false),
			Affinity:                      d.Apart(),
			TopologySpreadConstraints:     d.Spread(),
			NodeSelector:                  spec.NodeSelector,
			Tolerations:                   spec.Tolerations,
			PriorityClassName:             spec.PriorityClassName,
		},
	}
}

// podMeta returns the labels and annotations of pods.
func podMeta(db *databasev1.PostgreSQL, d *database.Database) metav1.ObjectMeta {
	annotations := map[string]string{}
	if db.Spec.RestartedAt != nil {
		annotations[api.AnnotationRestartedAt] = db.Spec.RestartedAt.UTC().Format("2006-01-02T15:04:05Z")
	}
	if hash := restartingParameters(db); hash != "" {
		annotations[api.AnnotationParameters] = hash
	}
	return d.PodMeta(annotations)
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

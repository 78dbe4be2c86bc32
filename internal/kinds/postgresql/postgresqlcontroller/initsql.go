package postgresqlcontroller

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	databasev1 "github.com/mainstay-platform/mainstay/api/database/v1"
	"github.com/mainstay-platform/mainstay/internal/instance/contract"
	"github.com/mainstay-platform/mainstay/internal/kinds/postgresql"
)

// observeInit reads the first statements of the application's database, while they may be needed.
func (k kind) observeInit(ctx context.Context, db *databasev1.PostgreSQL, observed *postgresql.Observed) error {
	if !postgresql.Initialises(db) {
		return nil
	}
	var read []contract.Statement
	var problems []string
	for i, one := range db.Spec.InitSQL {
		statement, problem, err := k.readInit(ctx, db.Namespace, one)
		if err != nil {
			return err
		}
		if problem != "" {
			problems = append(problems, fmt.Sprintf("spec.initSQL[%d]: %s", i, problem))
		}
		read = append(read, statement)
	}
	observed.Init = postgresql.NextInit(read, problems)
	return nil
}

// readInit reads one item.
func (k kind) readInit(ctx context.Context, namespace string, one databasev1.InitSQL) (read contract.Statement, problem string, err error) {
	find := func(object client.Object, kind, name string) (bool, error) {
		err := k.reader.Children.Live.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, object)
		if apierrors.IsNotFound(err) {
			problem = fmt.Sprintf("the %s %s does not exist", kind, name)
			return false, nil
		}
		if err != nil {
			return false, fmt.Errorf("reading the %s %s: %w", kind, name, err)
		}
		return true, nil
	}
	switch {
	case one.ConfigMapKeyRef != nil:
		var from corev1.ConfigMap
		found, err := find(&from, "ConfigMap", one.ConfigMapKeyRef.Name)
		text, hasKey := from.Data[one.ConfigMapKeyRef.Key]
		if found && !hasKey {
			problem = fmt.Sprintf("the ConfigMap %s has no key %s", one.ConfigMapKeyRef.Name, one.ConfigMapKeyRef.Key)
		}
		return contract.Statement{SQL: text}, problem, err
	case one.SecretKeyRef != nil:
		var from corev1.Secret
		found, err := find(&from, "Secret", one.SecretKeyRef.Name)
		text, hasKey := from.Data[one.SecretKeyRef.Key]
		if found && !hasKey {
			problem = fmt.Sprintf("the Secret %s has no key %s", one.SecretKeyRef.Name, one.SecretKeyRef.Key)
		}
		return contract.Statement{SQL: string(text), IsSecret: true}, problem, err
	}
	return contract.Statement{SQL: one.SQL}, "", nil
}

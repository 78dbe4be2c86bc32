package main

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"
)

const (
	// guestbook is an application that stores its visits in a PostgreSQL.
	guestbook       = "guestbook"
	guestbookDB     = "guestbook-db"
	guestbookSample = "config/samples/database/guestbook.yaml"
	guestbookImage  = "postgresql-17"
)

// database shows that an application's rows outlive the primary of its database. It is left out on
// a cluster of the user's own, which can't pull the images.
func (s *show) database(ctx context.Context) error {
	if s.registry != "" {
		return nil
	}
	if err := s.loadImages(ctx, guestbookImage); err != nil {
		return err
	}
	text, err := os.ReadFile(guestbookSample)
	if err != nil {
		return fmt.Errorf("reading the sample: %w", err)
	}
	s.log.Say("kubectl apply -n %s -f %s: an application, and its database of three instances", namespace, guestbookSample)
	fmt.Println(indent(string(text)))
	begun := time.Now()
	if _, err := s.kubectl(ctx, "apply", "-n", namespace, "-f", guestbookSample); err != nil {
		return err
	}
	if err := s.awaitReady(ctx, "postgresql/"+guestbookDB, "webapp/"+guestbook); err != nil {
		return err
	}
	s.log.Say("  both are Ready after %s", time.Since(begun).Round(100*time.Millisecond))
	before, err := s.visit(ctx)
	if err != nil {
		return err
	}
	if err := s.killPrimary(ctx, guestbookDB); err != nil {
		return err
	}
	after, err := s.visit(ctx)
	if err != nil {
		return err
	}
	if after <= before {
		return fmt.Errorf("there were %d visits before the primary was killed, and there are %d with the next one: a row is lost", before, after)
	}
	s.log.Say("  no row is lost; the killed instance comes back as a replica ...")
	if err := s.awaitReady(ctx, "postgresql/"+guestbookDB); err != nil {
		return err
	}
	table, err := s.kubectl(ctx, "-n", namespace, "get", "postgresqls")
	if err != nil {
		return err
	}
	fmt.Printf("\n%s\n\n", indent(table))
	return nil
}

// awaitReady waits until objects are Ready.
func (s *show) awaitReady(ctx context.Context, objects ...string) error {
	arguments := []string{"-n", namespace, "wait", "--for=condition=Ready", "--timeout=" + patience.String()}
	_, err := s.kubectl(ctx, append(arguments, objects...)...)
	return err
}

// killPrimary deletes the pod that takes writes, without a grace period: it can't hand over.
func (s *show) killPrimary(ctx context.Context, database string) error {
	primary, err := s.kubectl(ctx, "-n", namespace, "get", "postgresql", database, "-o", "jsonpath={.status.primary}")
	if err != nil {
		return err
	}
	s.log.Say("kubectl delete pod %s --force: the primary is gone, and a replica takes over ...", primary)
	_, err = s.kubectl(ctx, "-n", namespace, "delete", "pod", primary, "--force", "--wait=false")
	return err
}

// visit visits the application until it answers, and returns how many visits its database has.
func (s *show) visit(ctx context.Context) (count int, err error) {
	path := serviceProxy(guestbook, "/visits")
	begun := time.Now()
	err = await(ctx, "visiting the application", func() error {
		answer, err := s.kubectl(ctx, "get", "--raw", path)
		if err == nil {
			count, err = visits(answer)
		}
		return err
	})
	if err == nil {
		s.log.Say("  GET %s -> visits: %d, after %s", path, count, time.Since(begun).Round(100*time.Millisecond))
	}
	return count, err
}

// visits returns the number in an answer of the application.
func visits(answer string) (int, error) {
	number, found := strings.CutPrefix(strings.TrimSpace(answer), "visits: ")
	count, err := strconv.Atoi(number)
	if !found || err != nil {
		return 0, fmt.Errorf("the application answers %.100q: want visits and their number", answer)
	}
	return count, nil
}

// Package contract is the interface between the manager and the instances of a database: the names
// of objects, the settings that the manager writes, and the reports of instances. It does no I/O.
package contract

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"time"

	"github.com/mainstay-platform/mainstay/internal/instance/election"
	"github.com/mainstay-platform/mainstay/internal/kit/bounded"
)

// SettingsKey is the key of the Settings, as JSON, in the ConfigMap SettingsName.
const SettingsKey = "instance.json"

// Settings are what the manager tells all instances of a database. An instance applies changes
// while it runs.
type Settings struct {
	// Pods are the names of all desired instances: 1 to 5.
	Pods []string `json:"pods"`
	// Version is the required major version of the server, such as 17; empty is any.
	Version string `json:"version,omitempty"`
	// Durability is Required, Preferred or Asynchronous; empty is Required.
	Durability string `json:"durability,omitempty"`
	// FailoverAfter is how long a leader must be silent before another member stands for election,
	// such as 11s: from 5s to 5m; empty is 11s.
	FailoverAfter string `json:"failoverAfter,omitempty"`
	// AcceptLoss is the term of a record that may be replaced although acknowledged writes may be
	// lost, because a user has allowed it; 0 means none.
	AcceptLoss uint64 `json:"acceptLoss,omitempty"`
	// SwitchFrom is the term whose leader should hand over, to the pod SwitchTo if possible; 0 means
	// none.
	SwitchFrom uint64 `json:"switchFrom,omitempty"`
	SwitchTo   string `json:"switchTo,omitempty"`
	// SwitchOnly is true if only SwitchTo may take over: otherwise the leader stays.
	SwitchOnly bool `json:"switchOnly,omitempty"`
	// Ephemeral is true if the data of an instance end with its server, because they are not stored.
	// If no instance has data, the one with the lowest name begins with empty data.
	Ephemeral bool `json:"ephemeral,omitempty"`
	// Parameters are the parameters of the server, by their names: those of the user, and those that
	// the manager derives, at most 216. An instance leaves out what its server does not accept, and
	// reports that.
	Parameters map[string]string `json:"parameters,omitempty"`
	// Access are the user's lines of pg_hba.conf: at most 32. An instance leaves out lines that are
	// not accepted.
	Access []string `json:"access,omitempty"`
	// Initialise is true if the user's first statements, Provisions.InitSQL, are to be executed in the
	// application's database when that is created.
	Initialise bool `json:"initialise,omitempty"`
	// Provisions is the revision (ProvisionsRevision) of the Secret with the databases and users that
	// the primary makes; empty means none.
	Provisions string `json:"provisions,omitempty"`
}

// The limits of settings.
const (
	maxSettingsBytes = 64 << 10
	maxParameters    = 216 // a user may set 200, and the manager derives a few others from the limits
	maxPods          = 5
	maxAccess        = 32
	shortestAfter    = 5 * time.Second
	longestAfter     = 5 * time.Minute
	defaultAfter     = 11 * time.Second
)

var durabilities = map[string]election.Durability{
	"": election.Required, "Required": election.Required, "Preferred": election.Preferred, "Asynchronous": election.Asynchronous,
}

// podName matches what Kubernetes accepts as the name of a pod (RFC 1123).
var podName = regexp.MustCompile(`^[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?$`)

// majorVersion matches a server's major version.
var majorVersion = regexp.MustCompile(`^[0-9]{1,3}$`)

// ParseSettings decodes and checks the settings. Its errors name the field, what was found, and
// what is accepted.
func ParseSettings(text string) (Settings, error) {
	var settings Settings
	if err := bounded.Unmarshal([]byte(text), maxSettingsBytes, &settings); err != nil {
		return Settings{}, fmt.Errorf("%s: %w", SettingsKey, err)
	}
	if err := settings.Check(); err != nil {
		return Settings{}, fmt.Errorf("%s: %w", SettingsKey, err)
	}
	return settings, nil
}

// Encode returns the content of SettingsKey.
func (s Settings) Encode() string { return string(encode(s)) }

// Check returns an error that names the first field that is not accepted.
func (s Settings) Check() error {
	if len(s.Pods) == 0 || len(s.Pods) > maxPods {
		return fmt.Errorf("pods: has %d names: must be 1 to %d", len(s.Pods), maxPods)
	}
	for i, name := range s.Pods {
		if !podName.MatchString(name) || slices.Contains(s.Pods[:i], name) {
			return fmt.Errorf("pods[%d]: Invalid value: %.100q: must be the name of a pod, each once", i, name)
		}
	}
	if s.Version != "" && !majorVersion.MatchString(s.Version) {
		return fmt.Errorf("version: Invalid value: %.100q: must be a major version, as 17", s.Version)
	}
	if _, known := durabilities[s.Durability]; !known {
		return fmt.Errorf("durability: Unsupported value: %.100q: must be Required, Preferred or Asynchronous", s.Durability)
	}
	if s.Ephemeral && durabilities[s.Durability] != election.Asynchronous {
		return fmt.Errorf("ephemeral: Forbidden: durability must be Asynchronous, not %.100q", s.Durability)
	}
	if _, err := s.after(); err != nil {
		return err
	}
	if s.SwitchTo != "" && !slices.Contains(s.Pods, s.SwitchTo) {
		return fmt.Errorf("switchTo: Invalid value: %.100q: must be one of pods", s.SwitchTo)
	}
	if len(s.Parameters) > maxParameters {
		return fmt.Errorf("parameters: Too many: %d: must have at most %d items", len(s.Parameters), maxParameters)
	}
	if len(s.Access) > maxAccess {
		return fmt.Errorf("access: Too many: %d: must have at most %d items", len(s.Access), maxAccess)
	}
	return nil
}

// Election returns the configuration of the election. The settings must have passed Check.
func (s Settings) Election() election.Config {
	after, _ := s.after() // Check has accepted it.
	return election.Config{
		Instances: len(s.Pods), Durability: durabilities[s.Durability], After: after, AcceptLoss: s.AcceptLoss, Ephemeral: s.Ephemeral,
	}
}

func (s Settings) after() (time.Duration, error) {
	if s.FailoverAfter == "" {
		return defaultAfter, nil
	}
	const most = 20 // bytes
	after, err := time.Duration(0), errors.New("too long")
	if len(s.FailoverAfter) <= most {
		after, err = time.ParseDuration(s.FailoverAfter)
	}
	if err != nil || after < shortestAfter || after > longestAfter {
		return 0, fmt.Errorf("failoverAfter: Invalid value: %.100q: must be a duration from %s to %s",
			s.FailoverAfter, shortestAfter, longestAfter)
	}
	return after, nil
}

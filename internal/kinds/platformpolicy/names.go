// Package platformpolicy decides what a PlatformPolicy has to say of itself: whether it can be in
// force, what it governs, and what breaks it. What its rules mean is package policy's to say.
package platformpolicy

// Controller is the name of the kind's controller; its field manager is mainstay/platformpolicy.
const Controller = "platformpolicy"

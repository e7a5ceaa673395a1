// Package rotation decides the steps of a password rotation. Clients stay logged in, and after a
// crash the next operator continues from the observed state:
//
//	StorePending    store the new password next to the old one, before the server knows it
//	AcceptBoth      the server accepts both
//	UpdateBinding   write the new password to the binding; clients roll out
//	AwaitConsumers  wait until no client uses the old one
//	AcceptOne       the server accepts only the new one
//	PromotePending  delete the old one
//
// Steps are not recorded. The next step follows from the stored passwords, the passwords that the
// server accepts and the binding, and every step can be repeated. So some stored password is always
// valid, and the server never has more than two: a third breaks clients that support only one
// change of the authentication method.
package rotation

// Step is the next step of a rotation.
type Step string

// Steps in the order of a rotation.
const (
	Done           Step = "Rest"
	StorePending   Step = "Remember"
	AcceptBoth     Step = "Both"
	UpdateBinding  Step = "Bind"
	AwaitConsumers Step = "Await"
	AcceptOne      Step = "One"
	PromotePending Step = "Forget"
	// SwapPasswords exchanges the two stored passwords: the spec declares the former one again.
	SwapPasswords Step = "Turn"
)

// Account is the observed state of an account.
type Account struct {
	// Password is the current password, or the former one during a rotation.
	Password string
	// Pending is the next password; "" if there is no rotation.
	Pending string
	// PasswordAccepted and PendingAccepted report which of them the server accepts.
	PasswordAccepted, PendingAccepted bool
	// Declared is the password in the spec; "" if it is generated.
	Declared string
	// Due is set if a generated password must be rotated.
	Due bool
	// Bound is the password in the binding; "" if there is no binding.
	Bound string
	// ConsumersRolledOut is set if no client uses another password than the bound one.
	ConsumersRolledOut bool
	// SinglePassword is set if the server does not support two passwords.
	SinglePassword bool
}

// Target is the password at the end of the rotation.
func (a Account) Target() string {
	if a.Pending != "" {
		return a.Pending
	}
	return a.Password
}

// Next returns the next step.
func Next(a Account) Step {
	switch {
	case a.Pending == "":
		return nextIdle(a)
	case a.Pending == a.Password:
		return nextStoredEarly(a)
	case a.Declared == a.Password && a.PasswordAccepted:
		return SwapPasswords
	case a.Bound == "" || a.SinglePassword:
		return nextDirect(a)
	case a.Bound != a.Pending && a.PasswordAccepted && a.PendingAccepted:
		return UpdateBinding
	case a.Bound != a.Pending, !a.PendingAccepted:
		return AcceptBoth
	case !a.ConsumersRolledOut:
		return AwaitConsumers
	case a.PasswordAccepted:
		return AcceptOne
	}
	return PromotePending
}

// nextStoredEarly handles an account whose new password a user has stored as the current one. The
// former password of clients is then unknown, and so is whether the server still accepts it. The
// binding is updated and clients are awaited as usual, and PromotePending makes sure that the
// server accepts only one password.
func nextStoredEarly(a Account) Step {
	switch {
	case !a.PendingAccepted:
		return AcceptOne
	case a.Bound != "" && a.Bound != a.Pending:
		return UpdateBinding
	case a.Bound != "" && !a.ConsumersRolledOut && !a.SinglePassword:
		return AwaitConsumers
	}
	return PromotePending
}

// nextIdle handles an account without a rotation.
func nextIdle(a Account) Step {
	switch {
	case !a.PasswordAccepted:
		return AcceptOne // it was changed in the server
	case a.Bound != "" && a.Bound != a.Password:
		return UpdateBinding
	case a.Due, a.Declared != "" && a.Declared != a.Password:
		return StorePending
	}
	return Done
}

// nextDirect handles accounts without consumers of the binding, because a stored password stays
// valid throughout. It is also the only way with a server that supports one password: clients are
// disconnected until they have rolled out.
func nextDirect(a Account) Step {
	switch {
	case a.PasswordAccepted || !a.PendingAccepted:
		return AcceptOne
	case a.Bound != "" && a.Bound != a.Pending:
		return UpdateBinding
	}
	return PromotePending
}

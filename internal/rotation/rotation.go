// Package rotation decides how an account of a database gets another password while
// everybody who uses it stays logged in, and so that whoever is killed on the way can be
// followed by somebody who knows nothing but what is stored:
//
//	Remember   the new password is written down beside the old one, before the server learns it
//	Both       the server takes either
//	Bind       those who use the account are told the new one, and roll
//	Await      until nobody who was told the old one is left
//	One        the server takes the new one alone
//	Forget     the old one is struck out
//
// No step is recorded. Which one comes next follows from what is stored, what the server takes
// and who was told what, and each may be done again. So at every moment some stored password
// opens the database, and the server never has more than two: a third breaks clients that
// follow one change of the authentication only.
package rotation

// Step is what has to be done next.
type Step string

// The steps, in the order in which a rotation takes them.
const (
	Done           Step = "Rest"
	StorePending   Step = "Remember"
	AcceptBoth     Step = "Both"
	UpdateBinding  Step = "Bind"
	AwaitConsumers Step = "Await"
	AcceptOne      Step = "One"
	PromotePending Step = "Forget"
	// SwapPasswords lets the two stored passwords change places: the former one is wanted back.
	SwapPasswords Step = "Turn"
)

// Account is what is known of an account.
type Account struct {
	// Password is the one that it has, or had when a rotation began.
	Password string
	// Pending is the one that it gets; "" while there is no rotation.
	Pending string
	// PasswordAccepted and PendingAccepted say which of them the server takes.
	PasswordAccepted, PendingAccepted bool
	// Declared is the one that somebody has declared; "" when it is ours to choose.
	Declared string
	// Due says that it is ours to choose, and that it is time for another one.
	Due bool
	// Bound is the password that those who use the account are told; "" when there are none.
	Bound string
	// ConsumersRolledOut says that nobody is left who was told another one.
	ConsumersRolledOut bool
	// SinglePassword says that the server cannot take two passwords.
	SinglePassword bool
}

// Target is the password that the account ends with.
func (a Account) Target() string {
	if a.Pending != "" {
		return a.Pending
	}
	return a.Password
}

// Next says what to do.
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

// nextStoredEarly is for an account whose new password was stored in the place of the old one, by somebody who wanted to help.
// Which one those know who were told neither, and whether the server still takes it, nothing says any more. So they
// are told and waited for as ever, and Forget makes sure that there is one.
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

// nextIdle is for an account that is at rest, or is to be.
func nextIdle(a Account) Step {
	switch {
	case !a.PasswordAccepted:
		return AcceptOne // somebody has changed it behind our back
	case a.Bound != "" && a.Bound != a.Password:
		return UpdateBinding
	case a.Due, a.Declared != "" && a.Declared != a.Password:
		return StorePending
	}
	return Done
}

// nextDirect is the way where nobody has to be told, since what is stored opens the database before
// and after. A server that takes one password alone leaves no other: those who use it are cut off
// until they have rolled.
func nextDirect(a Account) Step {
	switch {
	case a.PasswordAccepted || !a.PendingAccepted:
		return AcceptOne
	case a.Bound != "" && a.Bound != a.Pending:
		return UpdateBinding
	}
	return PromotePending
}

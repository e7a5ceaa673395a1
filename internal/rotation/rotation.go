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
	Rest     Step = "Rest"
	Remember Step = "Remember"
	Both     Step = "Both"
	Bind     Step = "Bind"
	Await    Step = "Await"
	One      Step = "One"
	Forget   Step = "Forget"
	// Turn lets the two stored passwords change places: the former one is wanted back.
	Turn Step = "Turn"
)

// Account is what is known of an account.
type Account struct {
	// Password is the one that it has, or had when a rotation began.
	Password string
	// Pending is the one that it gets; "" while there is no rotation.
	Pending string
	// Opens and PendingOpens say which of them the server takes.
	Opens, PendingOpens bool
	// Wanted is the one that somebody has declared; "" when it is ours to choose.
	Wanted string
	// Due says that it is ours to choose, and that it is time for another one.
	Due bool
	// Told is the password that those who use the account are told; "" when there are none.
	Told string
	// Rolled says that nobody is left who was told another one.
	Rolled bool
	// OneOnly says that the server cannot take two passwords.
	OneOnly bool
}

// Final is the password that the account ends with.
func (a Account) Final() string {
	if a.Pending != "" {
		return a.Pending
	}
	return a.Password
}

// Next says what to do.
func Next(a Account) Step {
	switch {
	case a.Pending == "":
		return begin(a)
	case a.Pending == a.Password:
		return early(a)
	case a.Wanted == a.Password && a.Opens:
		return Turn
	case a.Told == "" || a.OneOnly:
		return atOnce(a)
	case a.Told != a.Pending && a.Opens && a.PendingOpens:
		return Bind
	case a.Told != a.Pending, !a.PendingOpens:
		return Both
	case !a.Rolled:
		return Await
	case a.Opens:
		return One
	}
	return Forget
}

// early is for an account whose new password was stored in the place of the old one, by somebody who wanted to help.
// Which one those know who were told neither, and whether the server still takes it, nothing says any more. So they
// are told and waited for as ever, and Forget makes sure that there is one.
func early(a Account) Step {
	switch {
	case !a.PendingOpens:
		return One
	case a.Told != "" && a.Told != a.Pending:
		return Bind
	case a.Told != "" && !a.Rolled && !a.OneOnly:
		return Await
	}
	return Forget
}

// begin is for an account that is at rest, or is to be.
func begin(a Account) Step {
	switch {
	case !a.Opens:
		return One // somebody has changed it behind our back
	case a.Told != "" && a.Told != a.Password:
		return Bind
	case a.Due, a.Wanted != "" && a.Wanted != a.Password:
		return Remember
	}
	return Rest
}

// atOnce is the way where nobody has to be told, since what is stored opens the database before
// and after. A server that takes one password alone leaves no other: those who use it are cut off
// until they have rolled.
func atOnce(a Account) Step {
	switch {
	case a.Opens || !a.PendingOpens:
		return One
	case a.Told != "" && a.Told != a.Pending:
		return Bind
	}
	return Forget
}

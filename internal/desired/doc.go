// Package desired renders the children of a component as apply configurations that contain only the owned
// fields.
//
// Safety rule: names, labels, selectors and pod templates must stay stable. A difference in the pod template of
// a golden file restarts the pods of all users on upgrade.
package desired

package appkind

import appsapi "github.com/holdfast-dev/holdfast/api/v1alpha1"

// AppStackRevisionSpec is what is remembered of a stack: what runs, not whether hands are off,
// nor how much is remembered. limit is how many specs are; 0 means the default.
func AppStackRevisionSpec(stack *appsapi.AppStack) (spec any, limit int32) {
	stored := appsapi.AppStackSpec{Components: stack.Spec.Components}
	if l := stack.Spec.RevisionHistoryLimit; l != nil {
		limit = *l
	}
	return stored, limit
}

// CloudManagerRevisionSpec is what is remembered of a CloudManagerComponents: what runs, not the password,
// which everybody who may read revisions could read, and not what becomes of data one day.
// The password is left out rather than replaced by a word: going back must not make that
// word the password.
func CloudManagerRevisionSpec(cm *appsapi.CloudManager) (spec any, limit int32) {
	stored := cm.Spec
	stored.DeletionPolicy, stored.DB.RootPass = "", ""
	return stored, 0
}

package kinds

import appsapi "github.com/holdfast-dev/holdfast/api/v1alpha1"

// AppStackHistory is what is remembered of a stack: what runs, not whether hands are off,
// nor how much is remembered. limit is how many specs are; 0 means the default.
func AppStackHistory(stack *appsapi.AppStack) (spec any, limit int32) {
	remembered := appsapi.AppStackSpec{Components: stack.Spec.Components}
	if l := stack.Spec.RevisionHistoryLimit; l != nil {
		limit = *l
	}
	return remembered, limit
}

// CloudManagerHistory is what is remembered of a CloudManager: what runs, not the password,
// which everybody who may read revisions could read, and not what becomes of data one day.
// The password is left out rather than replaced by a word: going back must not make that
// word the password.
func CloudManagerHistory(cm *appsapi.CloudManager) (spec any, limit int32) {
	remembered := cm.Spec
	remembered.DeletionPolicy, remembered.DB.RootPass = "", ""
	return remembered, 0
}

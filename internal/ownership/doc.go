// Package ownership determines who controls an object: this application, another owner, or no
// owner. The operator and the plugin share these rules and their errors.
//
// Safety rule: an object that is not known to belong to the application belongs to another owner.
package ownership

//go:build !unix

package inside

// NonBlock is nothing here, where folders hold no FIFOs.
const NonBlock = 0

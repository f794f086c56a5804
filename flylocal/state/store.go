package state

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// Store is an open state directory. Its methods may be called by one goroutine at a time.
type Store struct {
	dir     string
	lock    *os.File
	journal *journal
}

const dataDir = "data"

// ErrInUse is wrapped when another process holds the directory.
var ErrInUse = errors.New("in use by another platform")

// Open makes the directory where it is missing and takes its lock, which ends with the process. A directory that
// another platform holds is refused with ErrInUse and the words that platform left in the lock file.
func Open(dir string) (*Store, error) {
	for _, sub := range []string{"", dataDir, "data/machines", "data/volumes"} {
		if err := os.MkdirAll(filepath.Join(dir, sub), 0o700); err != nil {
			return nil, fmt.Errorf("state directory: %w", err)
		}
	}
	f, err := os.OpenFile(filepath.Join(dir, "lock"), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("state directory: %w", err)
	}
	free, err := tryLock(f, true)
	if err != nil {
		f.Close()
		return nil, fmt.Errorf("lock %s: %w", f.Name(), err)
	}
	if !free {
		held, _ := io.ReadAll(io.LimitReader(f, 256))
		f.Close()
		return nil, fmt.Errorf("state directory %s is %w (%s); stop that one first, or choose another directory",
			dir, ErrInUse, strings.TrimSpace(string(held)))
	}
	j, err := openJournal(filepath.Join(dir, "state.jsonl"))
	if err != nil {
		f.Close()
		return nil, err
	}
	s := &Store{dir: dir, lock: f, journal: j}
	return s, s.Announce(fmt.Sprintf("pid %d", os.Getpid()))
}

// Announce writes into the lock file what a refused second platform is told.
func (s *Store) Announce(words string) error {
	if err := s.lock.Truncate(0); err != nil {
		return fmt.Errorf("lock file: %w", err)
	}
	if _, err := s.lock.WriteAt([]byte(words+"\n"), 0); err != nil {
		return fmt.Errorf("lock file: %w", err)
	}
	return nil
}

// Close lets the directory go.
func (s *Store) Close() error { return errors.Join(s.journal.close(), s.lock.Close()) }

// Dir is the state directory.
func (s *Store) Dir() string { return s.dir }

// DataDir holds the directories of all machines and volumes.
func (s *Store) DataDir() string { return filepath.Join(s.dir, dataDir) }

// MachineDir is where a machine's runner keeps its files.
func (s *Store) MachineDir(id string) string { return filepath.Join(s.dir, dataDir, "machines", id) }

// VolumeDir is a volume's root directory.
func (s *Store) VolumeDir(id string) string { return filepath.Join(s.dir, dataDir, "volumes", id) }

// Kinds of records.
const (
	kindPlatform = "platform"
	kindApp      = "app"
	kindMachine  = "machine"
	kindVolume   = "volume"
)

// LoadPlatform reads the platform's own record; a new directory answers a zero one.
func (s *Store) LoadPlatform() (Platform, error) {
	all, err := readAll[Platform](s.journal, kindPlatform)
	if err != nil || len(all) == 0 {
		return Platform{Networks: map[string]uint32{}}, err
	}
	if all[0].Networks == nil {
		all[0].Networks = map[string]uint32{}
	}
	return *all[0], nil
}

// SavePlatform writes the platform's own record.
func (s *Store) SavePlatform(p Platform) error { return s.journal.put(kindPlatform, "", p) }

// Apps reads all apps.
func (s *Store) Apps() ([]*App, error) { return readAll[App](s.journal, kindApp) }

// Machines reads all machines.
func (s *Store) Machines() ([]*Machine, error) { return readAll[Machine](s.journal, kindMachine) }

// Volumes reads all volumes.
func (s *Store) Volumes() ([]*Volume, error) { return readAll[Volume](s.journal, kindVolume) }

// SaveApp writes an app.
func (s *Store) SaveApp(a *App) error { return s.journal.put(kindApp, a.Name, a) }

// SaveMachine writes a machine.
func (s *Store) SaveMachine(m *Machine) error { return s.journal.put(kindMachine, m.ID, m) }

// SaveVolume writes a volume.
func (s *Store) SaveVolume(v *Volume) error { return s.journal.put(kindVolume, v.ID, v) }

// DropApp removes an app's record; a missing one is no error.
func (s *Store) DropApp(name string) error { return s.journal.drop(kindApp, name) }

// DropMachine removes a machine's record.
func (s *Store) DropMachine(id string) error { return s.journal.drop(kindMachine, id) }

// DropVolume removes a volume's record.
func (s *Store) DropVolume(id string) error { return s.journal.drop(kindVolume, id) }

// WriteFile writes a file of mode 0600 beside its old self and renames it into place.
func WriteFile(path string, data []byte) error {
	if err := os.WriteFile(path+".tmp", data, 0o600); err != nil {
		return fmt.Errorf("state: %w", err)
	}
	if err := os.Rename(path+".tmp", path); err != nil {
		return fmt.Errorf("state: %w", err)
	}
	return nil
}

// Held says whether a platform has the directory.
func Held(dir string) (bool, error) {
	f, err := os.OpenFile(filepath.Join(dir, "lock"), os.O_RDWR, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	defer f.Close()
	free, err := tryLock(f, false)
	return !free && err == nil, err
}

terraform import flyfleet_machine.main acme-tenant-ada/3d8d7949b94089

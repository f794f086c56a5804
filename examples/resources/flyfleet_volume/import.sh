terraform import flyfleet_volume.data acme-tenant-ada/vol_4qp7nx2kz9m5w0y1

terraform import flyfleet_ip.flycast acme-tenant-ada/fdaa:0:3501:0:1::2
